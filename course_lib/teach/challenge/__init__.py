"""The challenge of lesson 17: a task with an open end, its score, and the board.

from course_lib import Lab, challenge
task = challenge.task(Lab())
run = lab.submit(task.recipe("mine", task.model(2, 64), seconds=25, iterations=300, …))
score = task.score(run)                    # judged by a fresh draw of text, from the saved weights
task.enter(score, name="Ada")
task.board()
"""

from course_lib.late_names import offering
from course_lib.teach.challenge.score import Score
from course_lib.teach.challenge.task import Task, task

__all__ = ["Score", "Task", "task"]
__dir__ = offering(__all__)
