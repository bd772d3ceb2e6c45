/**
 * The functions that we use of libbpf (libbpf.so.1, libbpf.readthedocs.io), and of bpf(2) through it. Every function
 * may throw ErrnoError, and an Error if the library is not installed. None of them waits: each is a system call of
 * microseconds, except `loadAndPin`, which takes some milliseconds, and `callLibbpfInThread`.
 */
import { constants } from 'node:os'
import { callInThread, koffi, library, errno } from '../ffi/koffi.ts'
import type { ForeignFunction } from '../ffi/koffi.ts'
import { MIB } from '../../lib/byte-units.ts'
import { ErrnoError } from '../ffi/errno-error.ts'

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
function listenToLibbpf(): { tail(): readonly string[]; end(): void } {
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
function hushLibbpf(): void {
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

/**
 * The functions, bound at their first use: without the library the daemon still runs, and reports that it is missing.
 */
const bound = new Map<string, ForeignFunction>()

function bind(prototype: string): ForeignFunction {
  let found = bound.get(prototype)
  if (found === undefined) {
    hushLibbpf()
    found = library('libbpf.so.1').func(prototype)
    bound.set(prototype, found)
  }
  return found
}

/** Calls a function that returns a failure as a negative errno, as nearly all do. */
export function call(doing: string, prototype: string, ...args: readonly unknown[]): number {
  const status = bind(prototype)(...args) as number
  if (status < 0) throw new ErrnoError(doing, -status)
  return status
}

/**
 * Does the same in a thread, for a function during which the kernel waits.
 * Keep the arguments as they are until it ends.
 */
export async function callLibbpfInThread(
  doing: string,
  prototype: string,
  ...args: readonly unknown[]
): Promise<void> {
  const status = await callInThread(bind(prototype), ...args)
  if (status < 0) throw new ErrnoError(doing, -status)
}

const LOOKUP = 'int bpf_map_lookup_elem(int fd, const void *key, void *value)'
const UPDATE = 'int bpf_map_update_elem(int fd, const void *key, const void *value, uint64_t flags)'
const DELETE = 'int bpf_map_delete_elem(int fd, const void *key)'
const NEXT_KEY = 'int bpf_map_get_next_key(int fd, const void *key, void *next)'

/** A pinned map; sizes in bytes. */
export type BpfMap = { readonly fd: number; readonly keyBytes: number; readonly valueBytes: number }

export function lookup(map: BpfMap, key: Uint8Array): Buffer | undefined {
  const value = Buffer.alloc(map.valueBytes)
  const status = bind(LOOKUP)(map.fd, key, value)
  if (status === 0) return value
  return orAbsent('bpf_map_lookup_elem', status)
}

export function update(map: BpfMap, key: Uint8Array, value: Uint8Array): void {
  call('bpf_map_update_elem', UPDATE, map.fd, key, value, 0)
}

/** Removes a key; does nothing if the map does not have it. */
export function remove(map: BpfMap, key: Uint8Array): void {
  const status = bind(DELETE)(map.fd, key)
  if (status !== 0) orAbsent('bpf_map_delete_elem', status)
}

/** Returns all keys. Keys that are added or removed meanwhile may or may not be included. */
export function keys(map: BpfMap): readonly Buffer[] {
  const found: Buffer[] = []
  const seen = new Set<string>()
  let last: Buffer | null = null
  for (;;) {
    const next = Buffer.alloc(map.keyBytes)
    const status = bind(NEXT_KEY)(map.fd, last, next)
    // ENOENT marks the end. If the last key was just removed, the kernel starts again from the first key.
    if (status !== 0) return orAbsent('bpf_map_get_next_key', status) ?? found
    const name = next.toString('latin1')
    if (seen.has(name)) return found
    seen.add(name)
    found.push(next)
    last = next
  }
}

function orAbsent(doing: string, status: number): undefined {
  if (status !== -constants.errno.ENOENT) throw new ErrnoError(doing, -status)
}

/** Returns the descriptor of a pinned map or program; undefined if nothing is pinned at the path. */
export function openPin(path: string): number | undefined {
  const fd = bind('int bpf_obj_get(const char *path)')(path)
  return fd < 0 ? orAbsent(`bpf_obj_get ${path}`, fd) : fd
}

/**
 * Returns a program's id. struct bpf_prog_info of linux/bpf.h starts with the type and the id, and the kernel fills
 * only as much as fits.
 */
export function programId(fd: number): number {
  const about = Buffer.alloc(8)
  const prototype = 'int bpf_obj_get_info_by_fd(int fd, void *about, _Inout_ uint32_t *length)'
  call('bpf_obj_get_info_by_fd', prototype, fd, about, [about.length])
  return about.readUInt32LE(4)
}

const openOptions = koffi.struct({
  size: 'size_t',
  objectName: 'const char *',
  relaxedMaps: 'bool',
  pinRootPath: 'const char *',
  reserved: 'uint32_t',
  kconfig: 'const char *',
})

const OPEN = 'void *bpf_object__open_mem(const void *bytes, size_t length, const void *options)'
const FIND_MAP = 'void *bpf_object__find_map_by_name(void *object, const char *name)'
const FIND_PROGRAM = 'void *bpf_object__find_program_by_name(void *object, const char *name)'

export type Loading = {
  readonly object: Uint8Array
  /** The directory in which maps are pinned under their names. Existing maps are reused if they match. */
  readonly pinDirectory: string
  readonly program: string
  /** The path at which the program is pinned. */
  readonly programPath: string
  /** The sizes of maps that differ from those in the object. */
  readonly maxEntries: Readonly<Record<string, number>>
}

/** Loads a compiled object, and pins its program and maps. An error contains the last lines of libbpf's log. */
export function loadAndPin(loading: Loading): void {
  const heard = listenToLibbpf()
  try {
    load(loading)
  } catch (error) {
    throw new Error(['loading the BPF program', ...heard.tail()].join(': '), { cause: error })
  } finally {
    heard.end()
  }
}

function load({ object: bytes, pinDirectory, program, programPath, maxEntries }: Loading): void {
  const object = open(bytes, pinDirectory)
  try {
    for (const [name, entries] of Object.entries(maxEntries)) {
      const map = pointer(`map ${name}`, FIND_MAP, object, name)
      call(`size of map ${name}`, 'int bpf_map__set_max_entries(void *map, uint32_t entries)', map, entries)
    }
    call('bpf_object__load', 'int bpf_object__load(void *object)', object)
    const found = pointer(`program ${program}`, FIND_PROGRAM, object, program)
    call('bpf_program__pin', 'int bpf_program__pin(void *program, const char *path)', found, programPath)
  } finally {
    // The pins keep the program and the maps alive.
    bind('void bpf_object__close(void *object)')(object)
  }
}

function open(bytes: Uint8Array, pinRootPath: string): bigint {
  const options = koffi.as(
    {
      size: koffi.sizeof(openOptions),
      objectName: 'traffic',
      relaxedMaps: false,
      pinRootPath,
      reserved: 0,
      kconfig: null,
    },
    koffi.pointer(openOptions),
  )
  return pointer('bpf_object__open_mem', OPEN, bytes, bytes.length, options)
}

function pointer(doing: string, prototype: string, ...args: readonly unknown[]): bigint {
  const found = bind(prototype)(...args) as unknown as bigint | null
  if (found === null) throw new ErrnoError(doing, errno())
  return found
}
