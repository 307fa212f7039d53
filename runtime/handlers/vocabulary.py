"""The vocabulary that modules generated for Numba import as `rt`: every jitted building block, and the base class."""

from aggloom.runtime.views.arrivals import *
from aggloom.runtime.handlers.compiled import CompiledHandler
from aggloom.runtime.handlers.compiled import NamespaceHandler as NamespaceHandler
from aggloom.runtime.arithmetic.floats import *
from aggloom.runtime.handlers.columns import Kernels as Kernels
from aggloom.runtime.handlers.layout import FieldLayout as FieldLayout
from aggloom.runtime.handlers.layout import InputLayout as InputLayout
from aggloom.runtime.handlers.layout import OutputLayout as OutputLayout
from aggloom.runtime.handlers.layout import ViewLayout as ViewLayout
from aggloom.runtime.handlers.handler import AWAY_FROM_ZERO as AWAY_FROM_ZERO
from aggloom.runtime.storage.jit import cold_kernel as cold_kernel
from aggloom.runtime.storage.jit import inner_kernel as inner_kernel
from aggloom.runtime.storage.jit import kernel as kernel
from aggloom.runtime.storage.jit import only_compiled as only_compiled
from aggloom.runtime.storage.jit import part as part
from aggloom.runtime.views.kinds import *
from aggloom.runtime.views.lists import *
from aggloom.runtime.arithmetic.moments import *
from aggloom.runtime.arithmetic.numeric import *
from aggloom.runtime.handlers.user import *
from aggloom.runtime.views.percentiles import *
from aggloom.runtime.storage.pool import *
from aggloom.runtime.arithmetic.superaccumulator import *
from aggloom.runtime.storage.blocks import *
from aggloom.runtime.storage.tree import *
from aggloom.runtime.values.encoded_values import *

Handler = CompiledHandler
