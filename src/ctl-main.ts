#!/usr/bin/env node
/** Runs vmhostctl in this process. */
import { writeSync } from 'node:fs'
import { homedir } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { text } from 'node:stream/consumers'
import { limits } from './config/limits.ts'
import { openTerminal } from './ctl/console/terminal.ts'
import { runCtl } from './ctl/run.ts'
import { build } from './daemon/build.ts'
import type { Shell, Sink } from './ctl/shell.ts'

/** Returns whether the reader of our output is gone: `head` has read enough, or a terminal was hung up. */
const isReaderGone = ({ code }: NodeJS.ErrnoException, { isTTY }: NodeJS.WriteStream): boolean =>
  code === 'EPIPE' || (isTTY && code === 'EIO')

/** Streams that have lost their reader. */
const unread = new Set<NodeJS.WriteStream>()

/** Whether the command has nothing to do once its output has lost its reader. */
let endsWithReader = false

/** A reader that is gone is not a failure. What it would have read is dropped, and the command keeps its own status. */
function onReaderGone(stream: NodeJS.WriteStream): void {
  unread.add(stream)
  if (endsWithReader && unread.has(process.stdout)) process.exit(0)
}

/** Writes synchronously, because the process is about to end. */
function tellOnStderr(line: string): void {
  try {
    writeSync(2, `${line}\n`)
  } catch {
    // There is no other place to report it.
  }
}

function sinkOf(stream: NodeJS.WriteStream): Sink {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (isReaderGone(error, stream)) return onReaderGone(stream)
    if (stream === process.stdout) tellOnStderr(`vmhostctl: its output cannot be written: ${error.message}`)
    process.exit(1)
  })
  return {
    write: (chunk) => {
      if (!unread.has(stream)) stream.write(chunk)
    },
    isTty: stream.isTTY,
    get columns() {
      // A terminal that does not know its size, such as a serial line, says 0.
      return stream.columns > 0 ? stream.columns : limits.ctlColumnsDefault
    },
  }
}

/** Opens a stream only when it is used: touching standard input opens it. */
const standardStreams = () => ({ stdin: process.stdin, stdout: process.stdout, stderr: process.stderr })

/** Loaded only for consoles, because it loads foreign functions. */
async function stopProcessing(fd: number): Promise<void> {
  const { makeRaw } = await import('./host/pty/open-pty.ts')
  makeRaw(fd)
}

const shell: Shell = {
  stdout: sinkOf(process.stdout),
  stderr: sinkOf(process.stderr),
  readStdin: () => text(process.stdin),
  openTerminal: () => openTerminal({ ...standardStreams(), stopProcessing, process }),
  endWithReader: () => {
    endsWithReader = true
  },
  environment: process.env,
  home: homedir(),
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  sleep: async (ms, signal) => sleep(ms, undefined, { signal }),
  every(ms, tick) {
    const timer = setInterval(tick, ms)
    return () => clearInterval(timer)
  },
  onInterrupt(notify) {
    const interrupted = (): void => {
      notify()
      // Raise the signal again without a handler: the caller sees how the process ended.
      process.kill(process.pid, 'SIGINT')
    }
    process.once('SIGINT', interrupted)
    return () => void process.removeListener('SIGINT', interrupted)
  },
  build,
}

void main()

async function main(): Promise<void> {
  process.exitCode = await runCtl(process.argv.slice(2), shell)
}
