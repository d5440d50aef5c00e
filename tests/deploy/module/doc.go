//go:build tools

// Package deploytools names the programs of the tests of deploy/: Helm, and Docker Compose's loader in composecheck/.
package deploytools

import _ "helm.sh/helm/v3/cmd/helm"
