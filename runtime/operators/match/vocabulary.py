"""The functions that generated matchers call, compiled."""

from __future__ import annotations

from aggloom.runtime.operators.match import navigation
from aggloom.runtime.storage.jit import inner_kernel, part
from aggloom.runtime.storage.jit import kernel as kernel

last_row = part(navigation.last_row)
first_row = part(navigation.first_row)
rows_before = part(navigation.rows_before)
order = part(navigation.order)
whole_quotient = part(navigation.whole_quotient)
last_mapped = inner_kernel(navigation.last_mapped)
first_mapped = inner_kernel(navigation.first_mapped)
last_of_set = inner_kernel(navigation.last_of_set)
first_of_set = inner_kernel(navigation.first_of_set)
add = inner_kernel(navigation.add)
subtract = inner_kernel(navigation.subtract)
multiply = inner_kernel(navigation.multiply)
divide = inner_kernel(navigation.divide)
