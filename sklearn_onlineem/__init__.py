from sklearn_onlineem.estimators.hidden_markov import *
from sklearn_onlineem.estimators.mixtures import *
from sklearn_onlineem.estimators.strings import *
