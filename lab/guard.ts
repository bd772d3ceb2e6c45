import { spawn } from 'node:child_process'
import path from 'node:path'
import { checkout } from '../tools/paths.ts'

/**
 * Ends a lab if this process ends first, however that happens. A shell waits for the end of a pipe that only this
 * process holds, as the labs themselves do not end with it. Returns a function that ends the guard.
 */
export function guardLab(name: string): () => void {
  const script = 'read -r _; exec "$@"'
  const down = [process.execPath, path.join(checkout, 'tools/dev.ts'), 'lab', 'down', name]
  const shell = spawn('sh', ['-c', script, 'sh', ...down], {
    cwd: checkout,
    // A session of its own: what ends our process group must not end the guard.
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  shell.unref()
  // The guard may end first; that is not a failure.
  shell.stdin?.on('error', () => {})
  return () => shell.kill('SIGKILL')
}
