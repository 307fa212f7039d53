"""What modules generated for plain Python import as `rt`: the same words over Python objects."""

from aggloom.runtime.handler import Kernels as Kernels
from aggloom.runtime.plain import Handler as Handler
from aggloom.runtime.plain import NamespaceHandler as NamespaceHandler
from aggloom.runtime.plain_floats import *
from aggloom.runtime.plain_own import *
from aggloom.runtime.plain_sketches import *
from aggloom.runtime.plain_values import *
from aggloom.runtime.plain_views import *
