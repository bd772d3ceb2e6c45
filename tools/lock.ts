import { spawn } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { cachePath } from './paths.ts'

/**
 * Runs `body` while holding an exclusive lock, which all processes of this machine with the same cache share. A `flock`
 * child holds the lock and ends when its standard input closes, so the lock is free however we end.
 */
export async function withLock<T>(name: string, body: () => Promise<T>): Promise<T> {
  const file = path.join(cachePath('lock'), name)
  const holder = spawn('flock', [file, 'sh', '-c', 'echo held; read -r _'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const ended = once(holder, 'close')
  const first = await Promise.race([once(holder.stdout, 'data'), ended.then(() => undefined)])
  if (first === undefined) throw new Error(`could not take the lock ${file}`)
  try {
    return await body()
  } finally {
    holder.stdin.end()
    await ended
  }
}
