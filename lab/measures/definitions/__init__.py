"""One file a measure: the function and all that is said of it. A file that is put here is a measure.

:mod:`lab.measures.catalogue` lists them.
"""
