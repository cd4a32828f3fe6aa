# Signs every program and library of the Windows app that nobody has signed yet: sign_windows.ps1 PYTHON FOLDER
# WINDOWS_CERTIFICATE_FILE names a .pfx file, WINDOWS_CERTIFICATE_PASSWORD opens it.
param(
    [Parameter(Mandatory = $true)][string]$Python,
    [Parameter(Mandatory = $true)][string]$Folder
)
$ErrorActionPreference = 'Stop'

$tool = Get-ChildItem "${env:ProgramFiles(x86)}\Windows Kits\10\bin\*\x64\signtool.exe" |
    Sort-Object FullName | Select-Object -Last 1
if (-not $tool) {
    throw 'signtool.exe is not on this machine.'
}
$listed = & $Python (Join-Path $PSScriptRoot 'sign_list.py') $Folder --format pe
if ($LASTEXITCODE -ne 0) {
    throw "There is nothing to sign in $Folder."
}
foreach ($file in $listed) {
    if ((Get-AuthenticodeSignature -LiteralPath $file).Status -eq 'Valid') {
        continue
    }
    & $tool.FullName sign /fd SHA256 /td SHA256 /tr http://timestamp.digicert.com `
        /f $env:WINDOWS_CERTIFICATE_FILE /p $env:WINDOWS_CERTIFICATE_PASSWORD $file
    if ($LASTEXITCODE -ne 0) {
        throw "Not signed: $file"
    }
}
foreach ($file in $listed) {
    $status = (Get-AuthenticodeSignature -LiteralPath $file).Status
    if ($status -ne 'Valid') {
        throw "The signature of $file is $status."
    }
}
