"""What operators remember, in components: each is arrays in an arena, and knows no handler and no engine."""
