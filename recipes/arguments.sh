# shellcheck shell=bash disable=SC2034
# Reads what a recipe script of this folder was called with: --engine, --config, --model and --nodes become ENGINE, CONFIG,
# MODEL and a setting, everything else stays as it is, in `flags`. To be sourced, before recipes/common.sh.

flags=()
while (($# > 0)); do
    case $1 in
        --engine=\{*) flags+=("$1") ;;  # a whole section, as JSON
        --engine=*) ENGINE=${1#*=} ;;
        --nodes=*) flags+=(--cluster.nodes "${1#*=}") ;;
        --config=*) CONFIG=${1#*=} ;;
        --model=*) MODEL=${1#*=} ;;
        --engine | --nodes | --config | --model)
            if (($# < 2)); then
                printf '%s: error: %s wants a value\n' "$(basename "$0")" "$1" >&2
                exit 2
            fi
            case $1 in
                --engine) [[ $2 == \{* ]] && flags+=("$1" "$2") || ENGINE=$2 ;;
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
