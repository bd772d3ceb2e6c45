import { assert } from '../../lib/assert.ts'
import { library } from './koffi.ts'

const _exit = library('libc.so.6').func('void _exit(int status)')

/**
 * Ends this process at once (_exit(2)). process.exit() runs the exit handlers of libraries, and libuv's waits for its
 * threads: for one that hangs in a dead file system it would wait for ever.
 */
export function exitNow(status: number): never {
  _exit(status)
  assert(false, '_exit returned')
}
