import { readFileSync } from 'node:fs'

const LOOK_EVERY_MS = 1000

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    // The process ended while we looked.
    return ''
  }
}

function descendants(pid: number): number[] {
  const children = read(`/proc/${pid}/task/${pid}/children`).split(' ').filter(Boolean).map(Number)
  return [...children, ...children.flatMap(descendants)]
}

/**
 * Kills the process of a test file that runs for longer than its bound, below the runner with this id; the runner then
 * counts the file as failed. Node bounds tests but not files, and one forgotten handle would hold up a run without end.
 * Returns a function that ends the watch.
 */
export function watchTestFiles(runner: number, files: readonly string[], boundMs: number): () => void {
  const firstSeen = new Map<number, number>()
  const timer = setInterval(() => {
    const now = performance.now()
    for (const pid of descendants(runner)) {
      const words = read(`/proc/${pid}/cmdline`).split('\0')
      // The runner itself names all files; the process of one file names one,
      // by its whole path if it executed itself again.
      const named = files.filter((file) => words.some((word) => word === file || word.endsWith(`/${file}`)))
      const [file] = named
      if (file === undefined || named.length > 1 || words.includes('--test')) continue
      const since = firstSeen.get(pid) ?? now
      firstSeen.set(pid, since)
      if (now - since < boundMs) continue
      console.error(`  ✘ ${file} has not ended after ${Math.round(boundMs / 1000)} s: ending it`)
      process.kill(pid, 'SIGKILL')
    }
  }, LOOK_EVERY_MS)
  return () => clearInterval(timer)
}
