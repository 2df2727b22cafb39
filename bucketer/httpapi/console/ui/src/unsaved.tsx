// What a person has typed and not saved: leaving it is asked about first, however it is left.

import { useEffect, useRef } from 'preact/hooks';
import { confirm, type Question } from './parts/Confirm';
import { guardPlace } from './router';

/**
 * Asks before a form is left while something in it is not saved: by a link, a key or Back, and by the
 * browser's own question where the page is closed. Call what it returns when all is saved.
 */
export function useUnsaved(dirty: boolean): () => void {
  const unsaved = useRef(dirty);
  const saved = useRef(false);
  unsaved.current = dirty;
  useEffect(() => {
    const asks = (): boolean => unsaved.current && !saved.current;
    const warn = (e: BeforeUnloadEvent): void => {
      if (asks()) {
        e.preventDefault();
      }
    };
    const leave = guardPlace(async () => !asks() || (await confirm(question)));
    addEventListener('beforeunload', warn);
    return () => {
      leave();
      removeEventListener('beforeunload', warn);
    };
  }, []);
  return () => {
    saved.current = true;
  };
}

const question: Question = {
  title: 'Leave without saving?',
  action: 'Leave, and lose it',
  danger: true,
  refuse: 'Stay here',
  children: <p>What you have typed is not saved.</p>,
};
