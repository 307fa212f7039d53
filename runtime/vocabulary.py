"""What modules generated for Numba import as `rt`: every jitted building block, and the base class."""

from aggloom.runtime.arrivals import *
from aggloom.runtime.bins import *
from aggloom.runtime.bits import *
from aggloom.runtime.compiled import Handler as Handler
from aggloom.runtime.compiled import NamespaceHandler as NamespaceHandler
from aggloom.runtime.floats import *
from aggloom.runtime.handler import Kernels as Kernels
from aggloom.runtime.jit import cold_kernel as cold_kernel
from aggloom.runtime.jit import kernel as kernel
from aggloom.runtime.jit import part as part
from aggloom.runtime.lists import *
from aggloom.runtime.moments import *
from aggloom.runtime.multiset import *
from aggloom.runtime.numeric import *
from aggloom.runtime.ordered import *
from aggloom.runtime.own import *
from aggloom.runtime.percentiles import *
from aggloom.runtime.pool import *
from aggloom.runtime.quantiles import *
from aggloom.runtime.ranked import *
from aggloom.runtime.registers import *
from aggloom.runtime.sequence import *
from aggloom.runtime.stamped import *
from aggloom.runtime.superaccumulator import *
from aggloom.runtime.tree import *
from aggloom.runtime.words import *
