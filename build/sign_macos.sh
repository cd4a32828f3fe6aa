#!/bin/sh
# Signs and notarises the macOS app: sign_macos.sh PYTHON APP
# MACOS_IDENTITY names the certificate in the keychain; APPLE_ID, APPLE_TEAM_ID and APPLE_APP_PASSWORD let the notary
# be asked. Ends with a failure when anything inside is not signed or the notary says anything but "Accepted".
set -eu
python=$1
app=$2
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
: "${MACOS_IDENTITY:?}" "${APPLE_ID:?}" "${APPLE_TEAM_ID:?}" "${APPLE_APP_PASSWORD:?}"

sign() {
    codesign --force --timestamp --options runtime --entitlements "$here/entitlements.plist" \
        --sign "$MACOS_IDENTITY" "$@"
}

# Every program and library by itself, the deepest first, the app last; --deep passes some over.
list=$(mktemp)
trap 'rm -f "$list"' EXIT
"$python" "$here/sign_list.py" "$app" --format macho >"$list"
while IFS= read -r file; do sign "$file"; done <"$list"
sign "$app"
codesign --verify --strict --deep --verbose=2 "$app"
while IFS= read -r file; do
    codesign --display --verbose=2 "$file" 2>&1 | grep -q "TeamIdentifier=$APPLE_TEAM_ID" || {
        printf 'Not signed by %s: %s\n' "$APPLE_TEAM_ID" "$file" >&2
        exit 1
    }
done <"$list"

work=$(mktemp -d)
trap 'rm -rf "$list" "$work"' EXIT
ditto -c -k --sequesterRsrc --keepParent "$app" "$work/app.zip"
xcrun notarytool submit "$work/app.zip" --wait --output-format plist --apple-id "$APPLE_ID" \
    --team-id "$APPLE_TEAM_ID" --password "$APPLE_APP_PASSWORD" >"$work/answer.plist"
status=$(plutil -extract status raw "$work/answer.plist")
if [ "$status" != Accepted ]; then
    xcrun notarytool log "$(plutil -extract id raw "$work/answer.plist")" --apple-id "$APPLE_ID" \
        --team-id "$APPLE_TEAM_ID" --password "$APPLE_APP_PASSWORD" >&2 || true
    printf 'The notary says %s.\n' "$status" >&2
    exit 1
fi
xcrun stapler staple "$app"
spctl --assess --type execute --verbose=2 "$app"
