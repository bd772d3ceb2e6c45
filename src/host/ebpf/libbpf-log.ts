import { koffi, library } from '../ffi/koffi.ts'
import { MIB } from '../../lib/byte-units.ts'

/** Enough lines for the end of a verifier's log, which states the reason. */
const TAIL_LINES = 12
/** The verifier's whole log is one message. For a program of this size it has some 100 KiB. */
const MESSAGE_BYTES_MAX = MIB
/** LIBBPF_DEBUG of bpf/libbpf.h. Levels below it are warnings and information. */
const DEBUG = 2

let lines: string[] | undefined
let hushed = false

/**
 * Collects libbpf's messages while it loads a program: the kernel returns only an errno, and the messages say the
 * reason. Only one collection can run at a time.
 */
export function listenToLibbpf(): { tail(): readonly string[]; end(): void } {
  hushLibbpf()
  const heard: string[] = []
  lines = heard
  return {
    tail: () => (heard.length === 0 ? [] : [heard.slice(-TAIL_LINES).join('; ')]),
    end() {
      lines = undefined
    },
  }
}

/** Stops libbpf from writing to standard error: failures are thrown instead. Throws if libbpf is not installed. */
export function hushLibbpf(): void {
  if (hushed) return
  const vsnprintf = library('libc.so.6').func(
    'int vsnprintf(void *text, size_t size, void *format, void *args)',
  )
  // The third argument is a va_list. On x86-64 it is an array, on arm64 a structure passed by reference; both arrive as
  // an address.
  const type = koffi.pointer(koffi.proto('int LibbpfPrint(int level, void *format, void *args)'))
  const print = koffi.register((level: number, format: bigint, args: bigint) => {
    if (lines === undefined || level >= DEBUG) return 0
    const text = Buffer.alloc(MESSAGE_BYTES_MAX)
    const length = Math.min(vsnprintf(text, text.length, format, args) as number, text.length - 1)
    lines.push(...linesOf(text.toString('utf8', 0, Math.max(length, 0))))
    return 0
  }, type)
  library('libbpf.so.1').func('void *libbpf_set_print(void *print)')(print)
  hushed = true
}

const linesOf = (text: string): string[] =>
  text
    .split('\n')
    .map((line) => line.replace(/^libbpf: /, '').trim())
    .filter((line) => line !== '')
