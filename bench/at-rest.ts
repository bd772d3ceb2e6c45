/**
 * Measurements of a daemon: how long a start takes after a crash, and what it costs and answers while nothing happens.
 */
import { Agent } from 'node:https'
import { setTimeout as delay } from 'node:timers/promises'
import { controllerIdentity } from '../lab/inside/controller.ts'
import { mainPid } from '../lab/inside/shell.ts'
import { killAndStart } from './load-stage.ts'
import { cpuPercent } from './process-cpu.ts'
import { fire } from './open-loop.ts'
import { memoryMib } from './process-memory.ts'
import type { Start } from './load-stage.ts'

/**
 * From a start until the daemon is at rest: first looks, and what follows them once. With 10,000 VMs, V8 collects the
 * garbage of the start about 35 s after it, in some 250 ms.
 */
export const REST_MS = 60_000
export const CPU_SECONDS = 60
const PORT = 9000

export type AtRest = {
  readonly starts: readonly Start[]
  readonly rssMib: number
  readonly cpuPercent: number
  /** From each request until its whole answer is read. */
  readonly answersMs: readonly number[]
}

export type RestTerms = {
  /** Crashes before the rest; a start follows each. */
  readonly kills: number
  /** The path that is read, one request after the other. */
  readonly path: string
  readonly reads: number
}

/** Kills the daemon a few times, and measures the last one at rest. */
export async function measureAtRest({ kills, path, reads }: RestTerms): Promise<AtRest> {
  const starts: Start[] = []
  for (let kill = 0; kill < kills; kill += 1) starts.push(await killAndStart())
  const cpu = await cpuAtRest()
  const rssMib = memoryMib(await mainPid('vmhostd'))
  const answersMs = await readAgain(path, reads)
  return { starts, rssMib, cpuPercent: cpu, answersMs }
}

/** Returns the daemon's use of one core, in percent, once it is at rest. */
export async function cpuAtRest(): Promise<number> {
  await delay(REST_MS)
  return cpuPercent(await mainPid('vmhostd'), CPU_SECONDS)
}

async function readAgain(path: string, reads: number): Promise<number[]> {
  const agent = new Agent({ ...controllerIdentity(), keepAlive: true, maxSockets: 1 })
  const shot = { port: PORT, method: 'GET', path, expect: 200 }
  // The handshake is not part of an answer.
  await fire(agent, shot)
  const answersMs: number[] = []
  for (let read = 0; read < reads; read += 1) {
    const startedAt = performance.now()
    await fire(agent, shot)
    answersMs.push(performance.now() - startedAt)
  }
  agent.destroy()
  return answersMs
}
