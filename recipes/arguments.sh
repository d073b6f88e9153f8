# shellcheck shell=bash disable=SC2034
# Reads what a recipe script of this folder was called with: --engine, --config, --model and --nodes become ENGINE, CONFIG,
# MODEL and a setting, everything else stays as it is, in `flags`. To be sourced, before recipes/common.sh.

refuse() {
    printf '%s: error: %s\n' "$(basename "$0")" "$1" >&2
    exit 2
}

# A whole section, as JSON. What is installed depends on the engine's type, which these scripts read as a word.
engine_section() {
    [[ $1 != *'"type"'* ]] || refuse "the section of --engine gives a type: name it by --engine.type instead"
}

flags=()
while (($# > 0)); do
    case $1 in
        --engine=\{*) engine_section "$1" && flags+=("$1") ;;
        --engine=*) ENGINE=${1#*=} ;;
        --nodes=*) flags+=(--cluster.nodes "${1#*=}") ;;
        --config=*) CONFIG=${1#*=} ;;
        --model=*) MODEL=${1#*=} ;;
        --engine | --nodes | --config | --model)
            (($# >= 2)) || refuse "$1 wants a value"
            case $1 in
                --engine) if [[ $2 == \{* ]]; then engine_section "$2" && flags+=("$1" "$2"); else ENGINE=$2; fi ;;
                --nodes) flags+=(--cluster.nodes "$2") ;;
                --config) CONFIG=$2 ;;
                --model) MODEL=$2 ;;
            esac
            shift
            ;;
        *) flags+=("$1") ;;
    esac
    shift
done
