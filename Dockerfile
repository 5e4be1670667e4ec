# A server for trained runs, on a processor:
#
#   docker build -t calque .
#   docker run --rm -p 127.0.0.1:5000:5000 -v "$PWD/runs:/runs:ro" calque /runs/en-de --page
FROM python:3.12-slim

# An index of torch without CUDA: gigabytes less.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu

# The compiler is for the kernels, which are built for the processor at the first start; without it answers take twice as long.
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /calque
COPY constraints.txt pyproject.toml README.md LICENSE ./
COPY src src
RUN version=$(sed -n 's/^torch==//p' constraints.txt) \
    && pip install --no-cache-dir --index-url "$TORCH_INDEX" "torch==$version" \
    && sed '/^t\(orch\|riton\)==/d' constraints.txt > /tmp/constraints.txt \
    && pip install --no-cache-dir -c /tmp/constraints.txt '.[serve]' \
    && rm -rf /calque /tmp/constraints.txt \
    && useradd --system --no-create-home calque \
    && install -d -o calque /var/cache/calque

ENV XDG_CACHE_HOME=/var/cache/calque
WORKDIR /runs
USER calque
EXPOSE 5000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:5000/health', timeout=4)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["calque", "serve", "--host", "0.0.0.0", "--port", "5000"]
