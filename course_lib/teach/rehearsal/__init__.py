"""The day before a class: its jobs, on the site that will be used, by as many at once as will come.

shapes     what every lesson asks of a cluster, learned from a run of the whole course
waves      short jobs of the same shapes, as many at once as there will be learners
places     disk, memory and ports of the machines
verdict    what will fail, what will be slow, what to book
"""
