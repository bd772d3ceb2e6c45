#!/usr/bin/env node
/** vmhostctl in this process. The executable comes here by the name it was called under. */
import { homedir } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { text } from 'node:stream/consumers'
import { runCtl } from './ctl/run.ts'
import { build } from './daemon/build.ts'
import type { Shell, Sink } from './ctl/shell.ts'

/** Whoever reads us may have had enough, as `head` does; that is no failure. */
const READER_GONE = 'EPIPE'

function sinkOf(stream: NodeJS.WriteStream): Sink {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === READER_GONE) process.exit(0)
    throw error
  })
  return {
    write: (chunk) => void stream.write(chunk),
    isTty: stream.isTTY,
    get columns() {
      return stream.columns
    },
  }
}

const shell: Shell = {
  stdout: sinkOf(process.stdout),
  stderr: sinkOf(process.stderr),
  readStdin: () => text(process.stdin),
  environment: process.env,
  home: homedir(),
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  sleep: async (ms, signal) => sleep(ms, undefined, { signal }),
  every(ms, tick) {
    const timer = setInterval(tick, ms)
    return () => clearInterval(timer)
  },
  build,
}

void main()

async function main(): Promise<void> {
  process.exitCode = await runCtl(process.argv.slice(2), shell)
}
