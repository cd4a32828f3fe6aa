# Dot-sourced by the scripts beside it. Works in Windows PowerShell 5.1 and in PowerShell 7.
# Initialize-Environment makes or refreshes the checkout's Python environment and returns its folder.

$Root = Split-Path -Parent $PSScriptRoot
$PSNativeCommandUseErrorActionPreference = $false

function Write-Talk([string]$Text) {
    # Not Write-Host: its text would land on stdout, which belongs to the program that is started.
    [Console]::Error.WriteLine($Text)
}

function Get-PythonCandidate {
    # Every Python that may be on this machine, newest first: the py launcher's, those on PATH, the usual folders.
    if (Get-Command 'py.exe' -CommandType Application -ErrorAction SilentlyContinue) {
        foreach ($version in '3.14', '3.13', '3.12', '3.11') {
            [pscustomobject]@{ Exe = 'py.exe'; Prefix = @("-$version") }
        }
    }
    foreach ($name in 'python3.14.exe', 'python3.13.exe', 'python3.12.exe', 'python3.11.exe', 'python3.exe', 'python.exe') {
        foreach ($command in @(Get-Command $name -CommandType Application -All -ErrorAction SilentlyContinue)) {
            [pscustomobject]@{ Exe = $command.Path; Prefix = @() }
        }
    }
    $patterns = @(
        "$env:LOCALAPPDATA\Programs\Python\Python3*\python.exe",
        "$env:ProgramFiles\Python3*\python.exe",
        "$env:USERPROFILE\.pyenv\pyenv-win\versions\3.*\python.exe",
        "$env:APPDATA\uv\python\cpython-3.*\python.exe"
    )
    foreach ($pattern in $patterns) {
        foreach ($file in @(Get-ChildItem -Path $pattern -ErrorAction SilentlyContinue)) {
            [pscustomobject]@{ Exe = $file.FullName; Prefix = @() }
        }
    }
}

function Find-Python {
    # The first one that can make an environment; or a word on what is missing, and the end.
    $ErrorActionPreference = 'Continue'  # 5.1 takes any word on stderr for an error otherwise
    $probe = Join-Path $PSScriptRoot 'env_probe.py'
    $own = Join-Path $Root '.venv'
    $rejected = @()
    foreach ($candidate in @(Get-PythonCandidate)) {
        if ($candidate.Exe.StartsWith($own, [StringComparison]::OrdinalIgnoreCase)) { continue }
        $prefix = $candidate.Prefix
        $verdict = ''
        try {
            $verdict = [string](& $candidate.Exe @prefix -E -s $probe 2>$null)
        }
        catch {
            $verdict = ''
        }
        $version = ($verdict -split ' ')[-1]
        if ($verdict -like 'good *') { return $candidate }
        if ($verdict -like 'old *') { $why = "too old: $version" }
        elseif ($verdict -like 'narrow *') { $why = "32 bit" }
        elseif ($verdict -like 'bare *') { $why = "Python $version without the modules venv and ensurepip" }
        elseif ($candidate.Exe -like '*\WindowsApps\*') { $why = "only a link to the Microsoft Store" }
        elseif ($prefix.Count -gt 0) { continue }
        else { $why = "does not run" }
        $rejected += "  $($candidate.Exe) ($why)"
    }
    Write-Talk 'Bonsai Launcher needs Python 3.11 or newer (64 bit), and found none that it can use.'
    if ($rejected.Count -gt 0) { Write-Talk ("Found:`n" + ($rejected -join "`n")) }
    Write-Talk "Looked with the py launcher, on PATH, and in the folders where python.org, pyenv and uv install."
    Write-Talk 'Install one from python.org, or with: winget install Python.Python.3.13'
    exit 1
}

function Initialize-Environment([string[]]$Extras) {
    $ErrorActionPreference = 'Continue'
    $environment = Join-Path $PSScriptRoot 'environment.py'
    $own = Join-Path $Root '.venv\Scripts\python.exe'
    if (Test-Path -LiteralPath $own) {
        # The usual case, fast: the environment is there, and says itself that nothing has changed.
        $answer = & $own -E -s $environment --check @Extras 2>$null
        if ($LASTEXITCODE -eq 0) { return (ConvertFrom-Json ([string]$answer)).venv }
    }
    $python = Find-Python
    $prefix = $python.Prefix
    $answer = & $python.Exe @prefix -E -s $environment @Extras
    if ($LASTEXITCODE -ne 0) { exit $LASTEXITCODE }
    return (ConvertFrom-Json ([string]$answer)).venv
}
