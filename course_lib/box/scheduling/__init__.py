"""Who gets which nodes, CPUs and devices, and when: the rules, without any process."""
