/** Makes a system call hang until a test ends it, as on a file system whose server is gone. */
import { execFileSync } from 'node:child_process'
import { closeSync, constants, mkdtempSync, openSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'

export type HungPath = {
  /** An open for reading hangs, and occupies a thread (fifo(7)). */
  readonly path: string
  /** Ends the opens that hang. Later opens do not hang, but reads do. */
  release(): void
  /** Ends the reads that hang. */
  end(): void
}

export function hungPath(t: TestContext): HungPath {
  const directory = mkdtempSync(join(tmpdir(), 'vmhostd-hung-'))
  const path = join(directory, 'fifo')
  execFileSync('mkfifo', [path])
  let writer: number | undefined
  const release = (): void => {
    writer ??= openSync(path, constants.O_RDWR | constants.O_NONBLOCK)
  }
  const end = (): void => {
    if (writer !== undefined) closeSync(writer)
    writer = undefined
  }
  t.after(() => {
    release()
    end()
    rmSync(directory, { recursive: true })
  })
  return { path, release, end }
}
