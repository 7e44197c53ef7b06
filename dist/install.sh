#!/bin/sh
# Installs tonnage from a release archive: program, manual pages and completions. Needs no root.
#
#   sh install.sh [--prefix DIR] [--sha256 HEX] [FROM]
#
# FROM is an archive (tonnage-VERSION-TARGET.tar.gz) or a directory with archives and their SHA256SUMS, on this machine
# or as a URL; without it, the directory that this script is in. The archive must have the sum that SHA256SUMS next to
# it says, or the one of --sha256. The prefix is ~/.local by default.
set -eu

fail() {
    printf 'error: %s\nhint: %s\n' "$1" "$2" >&2
    exit 1
}

usage() {
    printf 'usage: sh install.sh [--prefix DIR] [--sha256 HEX] [FROM]\n'
    printf 'FROM: an archive, or a directory with archives and SHA256SUMS; a path or a URL\n'
}

# The target that archives for this machine are named after.
machine() {
    system=$(uname -s)
    processor=$(uname -m)
    case $processor in
        arm64) processor=aarch64 ;;
        amd64) processor=x86_64 ;;
    esac
    case $system in
        Linux) echo "$processor-unknown-linux-gnu" ;;
        Darwin) echo "$processor-apple-darwin" ;;
        *) echo "$processor-$system" ;;
    esac
}

# fetch FROM FILE: from a path or a URL.
fetch() {
    case $1 in
        http://* | https://*)
            if command -v curl >/dev/null; then
                curl --fail --silent --show-error --location --output "$2" "$1"
            elif command -v wget >/dev/null; then
                wget --quiet --output-document="$2" "$1"
            else
                fail "neither curl nor wget is installed" "download $1 and its SHA256SUMS, then install from their directory"
            fi
            ;;
        *) cp "$1" "$2" ;;
    esac
}

sum_of() {
    if command -v sha256sum >/dev/null; then
        sha256sum "$1" | cut -d ' ' -f 1
    elif command -v shasum >/dev/null; then
        shasum -a 256 "$1" | cut -d ' ' -f 1
    else
        fail "neither sha256sum nor shasum is installed" "install coreutils"
    fi
}

# put FILE DIRECTORY MODE: under its own name, in one step, so that a running program is not written over.
put() {
    mkdir -p "$2"
    name=${1##*/}
    cp "$1" "$2/.$name.new"
    chmod "$3" "$2/.$name.new"
    mv -f "$2/.$name.new" "$2/$name"
    printf '  %s\n' "$2/$name"
}

main() {
    prefix=${HOME:-}/.local
    expected=
    from=
    while [ $# -gt 0 ]; do
        case $1 in
            --prefix | --sha256)
                [ $# -ge 2 ] || fail "$1 needs a value" "sh install.sh --help"
                if [ "$1" = --prefix ]; then prefix=$2; else expected=$2; fi
                shift
                ;;
            -h | --help)
                usage
                exit 0
                ;;
            -*) fail "unknown option $1" "sh install.sh --help" ;;
            *)
                [ -z "$from" ] || fail "one archive at a time: $from, $1" "sh install.sh --help"
                from=$1
                ;;
        esac
        shift
    done
    [ -n "$from" ] || from=$(dirname "$0")
    from=${from%/}
    case $prefix in
        /*) ;;
        *) prefix=$(pwd)/$prefix ;;
    esac

    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    trap 'exit 1' HUP INT TERM

    case $from in
        *.tar.gz)
            directory=${from%/*}
            [ "$directory" != "$from" ] || directory=.
            archive=${from##*/}
            ;;
        *)
            directory=$from
            archive=
            ;;
    esac
    if [ -z "$archive" ] || [ -z "$expected" ]; then
        fetch "$directory/SHA256SUMS" "$work/SHA256SUMS" ||
            fail "there is no $directory/SHA256SUMS" "an archive alone can be installed with --sha256 and its sum"
    fi
    if [ -z "$archive" ]; then
        archive=$(sed -n "s/^[0-9a-f]*[ *]*\(tonnage-[^ /]*-$(machine)\.tar\.gz\)\$/\1/p" "$work/SHA256SUMS" | head -n 1)
        [ -n "$archive" ] ||
            fail "$directory has no archive for $(machine)" "cargo install --locked --path crates/tonnage-cli builds one here"
    fi
    if [ -z "$expected" ]; then
        expected=$(sed -n "s/^\([0-9a-f]*\)[ *]*$archive\$/\1/p" "$work/SHA256SUMS" | head -n 1)
        [ -n "$expected" ] || fail "$directory/SHA256SUMS does not name $archive" "is it of the same release?"
    fi

    fetch "$directory/$archive" "$work/$archive" ||
        fail "$directory/$archive cannot be read" "see the message above"
    sum=$(sum_of "$work/$archive")
    [ "$sum" = "$expected" ] ||
        fail "$archive has the SHA-256 $sum, expected is $expected" "the archive is damaged or not the one of this release; nothing is installed"

    tar -xzf "$work/$archive" -C "$work"
    unpacked=$work/${archive%.tar.gz}
    [ -d "$unpacked" ] || fail "$archive holds no ${archive%.tar.gz}/" "it was renamed; give it its own name again"
    version=$("$unpacked/tonnage" --version) ||
        fail "the program of $archive does not run on this machine ($(machine))" "cargo install --locked --path crates/tonnage-cli builds one here"

    printf '%s from %s, its SHA-256 is as expected:\n' "$version" "$directory/$archive"
    put "$unpacked/tonnage" "$prefix/bin" 755
    for page in "$unpacked"/man/man1/*.1; do
        put "$page" "$prefix/share/man/man1" 644
    done
    # Each shell looks for another name.
    put "$unpacked/completions/bash/tonnage" "$prefix/share/bash-completion/completions" 644
    put "$unpacked/completions/zsh/_tonnage" "$prefix/share/zsh/site-functions" 644
    put "$unpacked/completions/fish/tonnage.fish" "$prefix/share/fish/vendor_completions.d" 644
    for text in README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT; do
        put "$unpacked/$text" "$prefix/share/doc/tonnage" 644
    done

    case :$PATH: in
        *":$prefix/bin:"*) ;;
        *) printf 'note: %s is not in PATH\n' "$prefix/bin" ;;
    esac
    printf 'note: zsh completes if %s is in fpath\n' "$prefix/share/zsh/site-functions"
}

# In a function, so that a script that was downloaded in part does nothing.
main "$@"
