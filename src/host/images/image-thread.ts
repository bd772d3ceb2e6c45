/**
 * Stores one image, in a thread of its own. The thread is also a bundle of its own, so the executable contains its
 * imports twice.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { HostFault } from '../../core/errors.ts'
import { storeContent } from './store-content.ts'
import { MIB } from '../../lib/byte-units.ts'
import { errnoOf } from '../ffi/errno-error.ts'
import type { FaultCode } from '../../core/errors.ts'
import type { StoreTerms } from './store-content.ts'

/** The order that a thread for storing an image gets at its start. The file stays open until the thread has ended. */
export type ImageOrder = StoreTerms & { readonly fd: number }

export type ToImageThread =
  /** Always the first message. */
  | { readonly kind: 'begin'; readonly unpacks: boolean }
  /** The next bytes from the source. The buffer is transferred. */
  | { readonly kind: 'chunk'; readonly chunk: Uint8Array<ArrayBuffer> }
  | { readonly kind: 'end' }

export type FromImageThread =
  /** The thread is done with a chunk. Its buffer is transferred back. */
  | { readonly kind: 'used'; readonly buffer: ArrayBuffer }
  /** This many bytes from the start are written and will not change. */
  | { readonly kind: 'written'; readonly bytes: number }
  /** A fault `storage_full` follows: the room above the reserve that there was for the file. */
  | { readonly kind: 'short'; readonly roomBytes: number }
  | { readonly kind: 'stored' }
  | { readonly kind: 'fault'; readonly code: FaultCode; readonly doing: string; readonly why: string }
  /** A system call failed with this errno, as a negative number. */
  | { readonly kind: 'errno'; readonly errno: number; readonly doing: string }

/** The thread reports its progress once per this many written bytes. */
const WRITTEN_STEP_BYTES = 8 * MIB

const post = (message: FromImageThread, handedOver: ArrayBuffer[] = []): void =>
  parentPort?.postMessage(message, handedOver)

const come: ToImageThread[] = []
let onMessage: () => void = () => {}
parentPort?.on('message', (message: ToImageThread) => {
  come.push(message)
  onMessage()
})

async function next(): Promise<ToImageThread> {
  for (;;) {
    const message = come.shift()
    if (message !== undefined) return message
    await new Promise<void>((resolve) => {
      onMessage = resolve
    })
  }
}

async function* chunks(): AsyncGenerator<Uint8Array> {
  for (;;) {
    const message = await next()
    if (message.kind !== 'chunk') return
    yield message.chunk
    const { buffer } = message.chunk
    post({ kind: 'used', buffer }, [buffer])
  }
}

let reported = 0
const onWritten = (bytes: number): void => {
  if (bytes - reported < WRITTEN_STEP_BYTES) return
  reported = bytes
  post({ kind: 'written', bytes })
}

const onShort = (roomBytes: number): void => post({ kind: 'short', roomBytes })

/** Translates a fault or a failed system call. Any other error is a bug, and is thrown: it ends the thread. */
function failure(error: unknown): FromImageThread {
  if (error instanceof HostFault) {
    const { code, message: doing, cause } = error
    return { kind: 'fault', code, doing, why: cause instanceof Error ? cause.message : '' }
  }
  if (errnoOf(error) === undefined) throw error
  const { errno = 0, syscall = 'a system call' } = error as NodeJS.ErrnoException
  return { kind: 'errno', errno, doing: syscall }
}

const outcome = async (order: ImageOrder): Promise<FromImageThread> => {
  try {
    const begin = await next()
    const unpacks = begin.kind === 'begin' && begin.unpacks
    await storeContent(chunks(), { ...order, unpacks, onWritten, onShort })
    return { kind: 'stored' }
  } catch (error) {
    return failure(error)
  }
}

void outcome(workerData as ImageOrder).then(post)
