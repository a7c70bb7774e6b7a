"""Expands the search of cookbooks, independently of this package.

The order is the one that the cookbooks' own tool documents: the base flags, then
the product of search_space in the order of the file with the last key fastest,
each laid over the base, what equals an earlier one left out, up to the limit.
Prints one line a cookbook: sha256 of the text, framework and number of candidates.

    python3 expand.py COOKBOOK.yaml…
"""
import hashlib, itertools, json, pathlib, sys
import yaml


def candidates(framework, limit):
    base = framework.get("base_server_flags") or {}
    space = framework.get("search_space") or {}
    found = [dict(base)]
    lists = [v if isinstance(v, list) else [v] for v in space.values()]
    for point in itertools.product(*lists):
        if len(found) >= limit:  # one is one
            break
        merged = {**base, **dict(zip(space, point))}
        if merged not in found:
            found.append(merged)
    return found


def text(framework, flags):
    return " ".join(f"{k}={json.dumps(v)}" for k, v in flags.items() if k != "model_path") + "\n"


for path in sys.argv[1:]:
    book = yaml.safe_load(open(path))
    limit = book["search"]["max_candidates_per_framework"]
    for name, framework in book["frameworks"].items():
        if not framework["enabled"]:
            continue
        found = candidates(framework, limit)
        body = "".join(text(framework, f) for f in found)
        print(pathlib.Path(path).stem, name, len(found), hashlib.sha256(body.encode()).hexdigest())
