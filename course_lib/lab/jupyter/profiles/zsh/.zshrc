ZDOTDIR=$COURSE_ZDOTDIR
if [[ -r $ZDOTDIR/.zshrc ]]; then . "$ZDOTDIR/.zshrc"; fi
ZDOTDIR=$course_profile
