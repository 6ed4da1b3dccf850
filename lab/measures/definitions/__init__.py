"""One file for each measure, with its function and description.

:mod:`lab.measures.catalogue` lists every file of this package.
"""
