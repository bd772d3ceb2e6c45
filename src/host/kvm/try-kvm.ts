import { closeSync, openSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { limits } from '../../config/limits.ts'
import type { KvmTry } from '../../core/monitor/choose-monitor.ts'
import type { Architecture } from '../../core/monitor/kernel-arguments.ts'
import { ErrnoError, errnoOf } from '../ffi/errno-error.ts'
import { LOOP_INSTRUCTIONS, LoopMachine } from './loop-machine.ts'

/**
 * Runs the loop, and again while it looks slow, because the host may be busy; the fastest of some tries counts. On
 * arm64 the device is only opened: it exists there only if the processor virtualises (Documentation/virt/kvm/arm/ of
 * the kernel).
 */
export async function tryKvm(
  device = '/dev/kvm',
  architecture: Architecture = process.arch === 'arm64' ? 'arm64' : 'x64',
): Promise<KvmTry> {
  let kvm: number
  try {
    kvm = openSync(device, 'r+')
  } catch (error) {
    return { opens: false, because: `KVM does not open (${errnoOf(error) ?? 'unknown'})` }
  }
  try {
    if (architecture === 'arm64') return { opens: true, runs: true }
    return { opens: true, ...(await measure(kvm)) }
  } finally {
    closeSync(kvm)
  }
}

type Measured = { readonly runs: true; readonly instructionsPerSecond: number }
type Failed = { readonly runs: false; readonly because: string }

async function measure(kvm: number): Promise<Measured | Failed> {
  let bestMs = Number.POSITIVE_INFINITY
  for (let attempt = 0; attempt < limits.kvmTries; attempt += 1) {
    const ms = await timeLoop(kvm)
    if (typeof ms !== 'number') return { runs: false, because: ms.because }
    bestMs = Math.min(bestMs, ms)
    if (speedOf(bestMs) >= limits.kvmInstructionsPerSecondMin) break
  }
  return { runs: true, instructionsPerSecond: speedOf(bestMs) }
}

const speedOf = (ms: number): number => Math.round((LOOP_INSTRUCTIONS / ms) * 1000)

/** Returns the milliseconds of one loop, or why it did not end. */
async function timeLoop(kvm: number): Promise<number | { readonly because: string }> {
  let machine: LoopMachine
  try {
    machine = new LoopMachine(kvm)
  } catch (error) {
    if (error instanceof ErrnoError) return { because: error.message }
    throw error
  }
  const giveUp = new AbortController()
  const late = delay(limits.kvmTryMs, 'late' as const, { signal: giveUp.signal })
  late.catch(() => {})
  const beganMs = performance.now()
  const end = await Promise.race([machine.run(), late])
  const ms = performance.now() - beganMs
  giveUp.abort()
  // A machine that still runs is left alone: its memory must stay.
  if (end === 'late') return { because: `a short loop did not end within ${limits.kvmTryMs} ms` }
  machine.close()
  return end === 'halted' ? ms : { because: `the loop ended with ${end}` }
}
