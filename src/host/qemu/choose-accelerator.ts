import { constants, promises as fs } from 'node:fs'
import type { Architecture } from '../../core/monitor/kernel-arguments.ts'
import type { Accelerator } from '../../core/monitor/qemu-command.ts'

export type AcceleratorChoice = { readonly accelerator: Accelerator; readonly because: string }

export type AcceleratorQuestion = {
  /** The operator's choice, which is not checked. */
  readonly pinned?: Accelerator
  readonly architecture?: Architecture
  readonly kvmPath?: string
  readonly cpuinfoPath?: string
}

/**
 * Chooses KVM if the host has it, and otherwise emulation. On x86 `/dev/kvm` alone proves nothing: nested hosts offer
 * it without the processor's support, and QEMU then aborts. On arm64 the device exists only if the kernel was booted at
 * EL2.
 */
export async function chooseAccelerator(question: AcceleratorQuestion = {}): Promise<AcceleratorChoice> {
  const {
    pinned,
    architecture = process.arch,
    kvmPath = '/dev/kvm',
    cpuinfoPath = '/proc/cpuinfo',
  } = question
  if (pinned !== undefined) return { accelerator: pinned, because: 'it is configured' }
  if (architecture !== 'arm64' && !(await hasVirtualisation(cpuinfoPath))) {
    return { accelerator: 'tcg', because: 'the processor has neither vmx nor svm' }
  }
  const refusal = await whyNotOpened(kvmPath)
  return refusal === undefined
    ? { accelerator: 'kvm', because: `the processor has virtualisation and ${kvmPath} opens` }
    : { accelerator: 'tcg', because: `${kvmPath} does not open (${refusal})` }
}

async function hasVirtualisation(cpuinfoPath: string): Promise<boolean> {
  return /^flags\b.*\b(vmx|svm)\b/m.test(await fs.readFile(cpuinfoPath, 'utf8'))
}

async function whyNotOpened(path: string): Promise<string | undefined> {
  try {
    const device = await fs.open(path, constants.O_RDWR)
    await device.close()
    return undefined
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? 'unknown'
  }
}
