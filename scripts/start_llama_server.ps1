# llama-server alone, in the foreground, on 127.0.0.1:8080: stands for `bonsai serve`.
# BONSAI_SPECULATIVE and the other variables are honoured; all arguments go on to llama-server.
$ErrorActionPreference = 'Stop'
. (Join-Path $PSScriptRoot '_env.ps1')
$venv = Initialize-Environment @('embedded')
$ErrorActionPreference = 'Continue'  # 5.1 would take redirected talk on stderr for an error
& (Join-Path $venv 'Scripts\bonsai.exe') serve -- @args
exit $LASTEXITCODE
