"""Says what the Python that runs it is good for: "good 3.13", "bare 3.13" (cannot make environments),
"narrow 3.13" (32 bit: numpy and others have no builds) or "old 3.9". Must parse in every Python there is.
"""

import sys

version = str(sys.version_info[0]) + "." + str(sys.version_info[1])
if sys.version_info < (3, 11):  # noqa: UP036 - older ones run this file too
    print("old " + version)
elif sys.maxsize < 2**32:
    print("narrow " + version)
else:
    try:
        import ensurepip
        import venv

        print("good " + version if ensurepip and venv else "")
    except ImportError:
        print("bare " + version)
