"""The vocabulary that modules generated for plain Python import as `rt`: the same words over Python objects."""

from aggloom.runtime.handlers.columns import Kernels as Kernels
from aggloom.runtime.handlers.layout import FieldLayout as FieldLayout
from aggloom.runtime.handlers.layout import InputLayout as InputLayout
from aggloom.runtime.handlers.layout import OutputLayout as OutputLayout
from aggloom.runtime.handlers.layout import ViewLayout as ViewLayout
from aggloom.runtime.handlers.handler import AWAY_FROM_ZERO as AWAY_FROM_ZERO
from aggloom.runtime.plain.backend import PlainHandler, PlainNamespaceHandler
from aggloom.runtime.plain.floats import *
from aggloom.runtime.plain.user import *
from aggloom.runtime.plain.kinds import *
from aggloom.runtime.plain.values import *

Handler = PlainHandler
NamespaceHandler = PlainNamespaceHandler
