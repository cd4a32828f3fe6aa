# The whole suite: lint, types, then pytest, which gets the arguments.
# What needs a tool that is missing (Chromium, a C++ compiler) is reported as skipped;
# with --require-all that is a failure.
$ErrorActionPreference = 'Stop'
. (Join-Path $PSScriptRoot '_env.ps1')
$venv = Initialize-Environment @('embedded', 'build', 'test', 'test-models')
$tools = Join-Path $venv 'Scripts'
$failed = @()
$ErrorActionPreference = 'Continue'  # 5.1 would take redirected talk on stderr for an error
Push-Location -LiteralPath $Root
try {
    & (Join-Path $tools 'ruff.exe') check
    if ($LASTEXITCODE -ne 0) { $failed += 'ruff check' }
    & (Join-Path $tools 'ruff.exe') format --check
    if ($LASTEXITCODE -ne 0) { $failed += 'ruff format' }
    & (Join-Path $tools 'mypy.exe')
    if ($LASTEXITCODE -ne 0) { $failed += 'mypy' }
    & (Join-Path $tools 'python.exe') -m pytest -n 2 --dist loadfile @args
    if ($LASTEXITCODE -ne 0) { $failed += 'pytest' }
}
finally {
    Pop-Location
}
if ($failed.Count -gt 0) {
    Write-Talk "Not clean: $($failed -join ', ')"
    exit 1
}
exit 0
