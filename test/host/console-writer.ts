/**
 * A guest that writes numbered lines as fast as its terminal takes them: `node console-writer.ts PATH`. Each line of
 * its standard input is a number: how many bytes in total it may have written by then. It ends with its input.
 */
import { openSync, writeSync } from 'node:fs'
import { createInterface } from 'node:readline'

const LINE_BYTES = 10

/** Returns the output from one offset to another: lines of ten bytes, each its own number. */
export function saidBetween(from: number, to: number): string {
  const first = Math.floor(from / LINE_BYTES)
  const count = Math.ceil(to / LINE_BYTES) - first
  const lines = Array.from({ length: count }, (_, line) => `${String(first + line).padStart(9, '0')}\n`)
  return lines.join('').slice(from - first * LINE_BYTES, to - first * LINE_BYTES)
}

async function write(path: string): Promise<void> {
  const terminal = openSync(path, 'w')
  let said = 0
  for await (const line of createInterface(process.stdin)) {
    const text = Buffer.from(saidBetween(said, Math.max(said, Number(line))))
    for (let at = 0; at < text.length;) at += writeSync(terminal, text, at)
    said += text.length
  }
}

const [, self, path] = process.argv
if (self === import.meta.filename && path !== undefined) await write(path)
