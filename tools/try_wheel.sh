#!/usr/bin/env bash
# Build the wheel, install it into an environment of its own, and run it from another folder.
# The environment has no unlazy but the wheel's; what unlazy depends on is that of the environment whose folder is given.
#   tools/try_wheel.sh .venv
set -euo pipefail
cd "$(dirname "$0")/.."
dev=$(cd "$1" && pwd)
rm -rf dist && mkdir dist
"$dev/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
clean=$(mktemp -d)
trap 'rm -rf "$clean"' EXIT
"$dev/bin/python" -m venv --without-pip "$clean/venv"
# A path in a .pth file brings the packages there, but not the .pth files there, by which the editable unlazy is found.
site=$("$clean/venv/bin/python" -c 'import site; print(site.getsitepackages()[0])')
"$dev/bin/python" -c 'import site; print(site.getsitepackages()[0])' > "$site/dependencies.pth"
"$dev/bin/python" -m pip --python "$clean/venv/bin/python" install --quiet --disable-pip-version-check --no-deps --no-index dist/unlazy-*.whl
mkdir "$clean/elsewhere" && cd "$clean/elsewhere"
unset PYTHONPATH
export UNLAZY_STORE="$clean/results.sqlite"
"$clean/venv/bin/python" -c "import unlazy; assert unlazy.__file__.startswith('$clean'), unlazy.__file__"
"$clean/venv/bin/unlazy" --version
"$clean/venv/bin/unlazy" list > studies.txt
"$clean/venv/bin/unlazy" cite spike > cited.bib
"$clean/venv/bin/unlazy" predict ridge-equivalent --over ridge=0.01,0.1
"$clean/venv/bin/unlazy" reproduce mixture-classification --dry-run > cost.txt
"$clean/venv/bin/python" -c "
from pathlib import Path
from unlazy.lab.running.evidence import told
from unlazy.lab.registry import find
from unlazy.reporting.html.report import write_report
write_report([], Path('report.html'), 'quick')
study = find('spike')
assert any(told(study, claim) for claim in study.claims), 'the evidence is not in the wheel'
"
echo "the wheel runs"
