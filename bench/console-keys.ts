import { closeSync, writeSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { ReadStream } from 'node:tty'
import { duplicate } from '../src/host/ffi/descriptor.ts'
import { makeRaw, openMaster, openSlave, slavePath } from '../src/host/pty/open-pty.ts'
import type { ChildProcess } from 'node:child_process'
import type { Viewer } from '../lab/inside/console.ts'

const KEYS = 300
const KEY = Buffer.from('k')

/**
 * Returns the time from each key to its echo, ms. `paceMs` is the pause between two keys: the daemon closes a viewer
 * that types faster for long.
 */
export async function consoleEcho(viewer: Viewer, keys = KEYS, paceMs = 0): Promise<number[]> {
  const samples: number[] = []
  for (let key = 0; key < keys; key += 1) {
    if (paceMs > 0) await delay(paceMs)
    const startedAt = performance.now()
    const echoed = viewer.reached(viewer.received() + 1)
    viewer.socket.send(KEY)
    await echoed
    samples.push(performance.now() - startedAt)
  }
  return samples
}

/** Measures the same over a pty of our own, with nothing in between. */
export async function bareEcho(echoOn: (path: string) => Promise<ChildProcess>): Promise<number[]> {
  const master = openMaster()
  const slave = openSlave(slavePath(master))
  makeRaw(slave)
  const echo = await echoOn(slavePath(master))
  const stream = new ReadStream(duplicate(master))
  const samples: number[] = []
  for (let key = 0; key < KEYS; key += 1) {
    const echoed = Promise.withResolvers<void>()
    stream.once('data', () => echoed.resolve())
    const startedAt = performance.now()
    writeSync(master, KEY)
    await echoed.promise
    samples.push(performance.now() - startedAt)
  }
  stream.destroy()
  echo.kill()
  closeSync(slave)
  closeSync(master)
  return samples
}
