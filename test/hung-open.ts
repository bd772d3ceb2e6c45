/** A system call that hangs, as on a file system whose server is gone, until a test ends it. */
import { execFileSync } from 'node:child_process'
import { closeSync, constants, mkdtempSync, openSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'

export type HungPath = {
  /** Whoever opens it to read hangs, and holds a thread (fifo(7)). */
  readonly path: string
  /** Ends the opens that hang; later ones do not hang, but reads do. */
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
