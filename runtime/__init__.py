"""Run time: the changelog, the arena with its views, the operators, and the harness that drives them without Spark.

Generated modules import `compiled` or `plain`; everything that knows Spark is in `runtime.spark`.
"""
