/** Returns the path of a request whose answer ends. The stream of events goes on unless it is asked to end. */
export const endingPath = (path: string): string => (path === '/v1/events' ? `${path}?follow=false` : path)
