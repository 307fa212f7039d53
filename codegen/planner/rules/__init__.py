"""Rules of the planner: each takes a plan and gives a plan that says the same; one rule a module, named after it."""
