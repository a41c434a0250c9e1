"""Small streams with categories and classes to draw, and the ways to call them something else."""

import numpy as np
from hypothesis import strategies as st

CLASSES = 4
CATEGORIES = 5

pairs = st.lists(st.tuples(st.integers(0, CATEGORIES - 1), st.integers(0, CLASSES - 1)), min_size=1, max_size=40)
masks = st.lists(st.booleans(), min_size=CLASSES, max_size=CLASSES).map(np.array)
class_orders = st.permutations(range(CLASSES)).map(np.array)
category_names = st.lists(st.integers(-50, 10**12), min_size=CATEGORIES, max_size=CATEGORIES, unique=True).map(np.array)


def arrays(drawn):
    """Categories and classes of the events, an array each."""
    both = np.array(drawn, dtype=np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def random_arrays(seed, events, categories, classes, agreement):
    """A larger stream; `agreement` is how often the category follows from the class."""
    chance = np.random.default_rng(seed)
    truth = chance.integers(classes, size=events)
    follows = chance.random(events) < agreement
    return np.where(follows, truth % categories, chance.integers(categories, size=events)), truth
