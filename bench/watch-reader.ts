/*
 * A thread that reads the frames from a tap as a monitor does, and counts them. workerData: the tap, and the counter.
 */
import { workerData } from 'node:worker_threads'
import { library } from '../src/host/ffi/koffi.ts'
import { attachTap } from '../test/host/attach-tap.ts'

const { device, count } = workerData as { device: string; count: Int32Array }
const read = library('libc.so.6').func('intptr_t read(int fd, void *frame, size_t bytes)')
const fd = attachTap(device)
const frame = Buffer.alloc(2048)
Atomics.store(count, 1, 1)
Atomics.notify(count, 1)
// This loop ends when the device is deleted.
while (Number(read(fd, frame, frame.length)) > 0) Atomics.add(count, 0, 1)
