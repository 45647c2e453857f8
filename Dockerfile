# Holdfast itself as a container image: the simulator, judging, reports, campaigns, serve.
#
#   docker build --tag holdfast .
#   docker run --rm --volume "$PWD:/work" --user "$(id -u)" holdfast run --backend sim
#
# It needs no privilege: no capability, no writable root, no network. Nodes in containers
# (--backend docker) need the host's engine and are run from an installation, not from this image.
ARG BASE=python:3.12-slim
FROM ${BASE}
# Where no package index is reachable, wheels lie in the context: PIP and PACKAGE name them.
ARG PIP="python3 -m pip install --no-cache-dir"
ARG PACKAGE=/src
COPY . /src
RUN ${PIP} ${PACKAGE} && rm -rf /src && mkdir /work && chmod 1777 /work
ENV HOME=/tmp PYTHONUNBUFFERED=1
WORKDIR /work
USER 65534
ENTRYPOINT ["holdfast"]
CMD ["--help"]
