# Starts Bonsai Launcher: .\scripts\start.ps1 opens the page, .\scripts\start.ps1 plan and so on run a command.
# Its Python environment is made on the first start and refreshed when the list of packages changes.
$ErrorActionPreference = 'Stop'
. (Join-Path $PSScriptRoot '_env.ps1')
$extras = @('embedded')
if ("$($args[0]) $($args[1])" -eq 'engines build') { $extras += 'build' }  # CMake and Ninja
$venv = Initialize-Environment $extras
$ErrorActionPreference = 'Continue'  # 5.1 would take redirected talk on stderr for an error
& (Join-Path $venv 'Scripts\bonsai.exe') @args
exit $LASTEXITCODE
