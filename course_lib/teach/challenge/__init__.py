"""Challenge of lesson 17: an open-ended task, its score, and the board.

from course_lib import Lab, challenge
task = challenge.task(Lab())
run = lab.submit(task.recipe("mine", task.model(2, 64), seconds=25, iterations=300, …))
score = task.score(run)                    # from the saved weights, on freshly drawn text
task.enter(score, name="Ada")
task.board()
"""

from course_lib.late_names import offering
from course_lib.teach.challenge.score import Score
from course_lib.teach.challenge.task import Task, task

__all__ = ["Score", "Task", "task"]
__dir__ = offering(__all__)
