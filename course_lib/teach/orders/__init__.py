"""Functions of a learner that put ranks or steps in an order, tried without any process."""
