"""Write the pages that are derived from the code or from running their examples: `make docs` runs these modules."""
